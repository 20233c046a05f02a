"""Cost: the meter's units (metering.py), the dated price list (prices.py), and the estimate from both."""
