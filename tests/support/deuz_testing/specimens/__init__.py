"""What each wire gives to be judged by the laws that all wires share."""
