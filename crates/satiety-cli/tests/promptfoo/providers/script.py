import sys

print("script:", sys.argv[1])
