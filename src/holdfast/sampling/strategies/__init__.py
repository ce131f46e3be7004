"""How the candidates of a sampling follow from one another, and which of them is chosen."""
