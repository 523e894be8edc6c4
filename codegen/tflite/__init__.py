"""TensorFlow Lite models: files read by the schema's generated code (package `tflite`)."""
