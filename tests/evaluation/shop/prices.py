"""Prices of orders, in whole units."""

from __future__ import annotations


def line_price(price: int, count: int) -> int:
    """Return the price of a line."""
    return price * count


def order_total(lines: list[tuple[int, int]], voucher: int = 0) -> int:
    """Return the total of an order's lines (price, count), less the voucher."""
    total = sum(line_price(price, count) - voucher for price, count in lines)
    return max(0, total - voucher)
