"""The subcommands of `tune` that have a room of their own. Heavy imports wait inside them."""
