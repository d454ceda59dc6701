"""A fake provider and a scripted agent: everything shown without a key."""
