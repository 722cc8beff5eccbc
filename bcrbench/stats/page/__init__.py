"""The report page: one HTML file with tables, figures and a browser of items that asks the network for nothing."""
