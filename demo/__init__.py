"""The whole path on the real weights of all-MiniLM-L6-v2, without a network: `make demo`.

Everything is written below `.demo/`, which each run makes anew. What is printed as a command or as
Python is what runs; every number is computed.
"""
