"""What happens, told as events without content."""
