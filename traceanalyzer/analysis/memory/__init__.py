"""Where GPU memory went: every allocation's life, and what follows from it. Arrays in, frozen
values out."""
