"""Checks of prices: `python3 check_prices.py`."""

from prices import order_total

assert order_total([(5, 2), (3, 1)]) == 13
assert order_total([(5, 2), (3, 1)], voucher=4) == 9
assert order_total([(1, 1)], voucher=4) == 0
print("all checks passed")
