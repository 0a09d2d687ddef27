"""The library: what ``import aml_train`` offers, and what it is made of."""
