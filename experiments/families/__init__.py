"""What the front door knows of each family of spaces without loading it: names, options, and the module that builds."""
