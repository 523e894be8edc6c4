"""Programs on simulated Cortex-M processors: arm-none-eabi-gcc builds them, QEMU runs them, a plugin counts instructions."""
