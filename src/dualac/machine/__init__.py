"""The computer: its cores, its memory, how programs are compiled on it, and child processes. No
JAX at import.
"""
