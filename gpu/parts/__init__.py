"""What gpu/record.py asks, part by part."""
