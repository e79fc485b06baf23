"""What developers run by hand: vendoring what the page loads, and making its pictures."""
