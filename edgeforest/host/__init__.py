"""What only a computer has: a disk, a terminal, frames of pandas, polars and Arrow."""
