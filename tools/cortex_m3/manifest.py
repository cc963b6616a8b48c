# Nothing is frozen, but something could be: tests/test_cortex.py freezes our files.
