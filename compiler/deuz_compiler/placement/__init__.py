"""Where added text may go, and how a block is written."""
