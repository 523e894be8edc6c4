"""Face detection on SCAMP-5 (AUKE Section 4.4): a cascade's features as programs, and the detector that runs them."""
