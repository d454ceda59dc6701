"""What the compiler is given and gives back: frozen values, strictly loaded."""
