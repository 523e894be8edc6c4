"""Buffers that are alive at different times share one memory. Where does each one stand, and is less possible?"""

import csv
from pathlib import Path

from kilotune import tune

BUFFERS = """id,lower,upper,size
image,0,3,64
weights,0,6,32
rows,2,5,96
sums,4,7,48
labels,6,8,80
"""

if __name__ == "__main__":
    Path("buffers.csv").write_text(BUFFERS)
    study = tune("memory", input="buffers.csv", budget="5s")
    print("peak", study.best.metrics["peak_bytes"], "bytes;", "proved" if study.proved else f"bound {study.bound}")
    study.export("placed")
    for row in csv.DictReader(Path("placed/placement.csv").read_text().splitlines()):
        print(f"{row['id']:8} at {row['offset']:>4}, {row['size']:>3} bytes")
