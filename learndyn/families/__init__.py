"""The families of theory; importing one registers its theories."""
