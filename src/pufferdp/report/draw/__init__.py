"""Charts drawn: by matplotlib for files, by Vega for the page."""
