"""What can be set: read, checked as a whole, and only then put in force."""
