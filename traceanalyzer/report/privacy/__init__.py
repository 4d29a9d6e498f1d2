"""What of a report may be published: paths, hosts, users, tokens and marked names go."""
