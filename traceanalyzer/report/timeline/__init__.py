"""The timeline of the HTML page: lanes, colours and pixels."""
