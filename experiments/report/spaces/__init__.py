"""The figures that only one space has: a module each, named by `Offer.drawing`, and the figures that it is made of."""
