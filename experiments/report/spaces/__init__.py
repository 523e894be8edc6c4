"""The figures that only one space has: one module each, named by `Offer.drawing`."""
