"""The names of score slots, and the versions of scorers behind them."""
