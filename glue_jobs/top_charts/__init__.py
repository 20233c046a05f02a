"""The most played of each chart, kept up to date and ready to be asked for."""
