"""The widths of a bundled model's variables: the least memory within 2 points of the float model, and its C program."""

from kilotune import tune

if __name__ == "__main__":
    study = tune("shiftry", input="worked-example", strategy="local", budget="60trials", seed=1)
    print(study.summary())
    print("the paper's procedure:", study.procedure.metrics["memory_bytes"], "bytes")
    print("found:", study.best.metrics["memory_bytes"], "bytes, widths", dict(study.best.assignment))
    for what, path in study.export("worked-example-program", target="c").items():
        print(what, path)
