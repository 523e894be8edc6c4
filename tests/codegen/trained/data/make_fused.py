"""Makes `lstm_fused.tflite` beside it, whose layers are one operator each, and adds its results to `recurrent.npz`: run it after
make_recurrent.py, with `TF_USE_LEGACY_KERAS=1 python make_fused.py`, TensorFlow 2.21 and tf_keras 2.21. Weights are random."""

from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras

FOLDER = Path(__file__).parent

model = tf_keras.Sequential([
    tf_keras.Input((5, 2), batch_size=1),
    tf_keras.layers.Bidirectional(tf_keras.layers.LSTM(3, return_sequences=True)),
    tf_keras.layers.LSTM(2),
])  # fmt: skip
random = np.random.default_rng(6)
model.set_weights([random.normal(0, 0.7, weights.shape) for weights in model.get_weights()])
content = tf.lite.TFLiteConverter.from_keras_model(model).convert()
(FOLDER / "lstm_fused.tflite").write_bytes(content)
known = dict(np.load(FOLDER / "recurrent.npz"))
interpreter = tf.lite.Interpreter(model_content=content)
interpreter.allocate_tensors()
given, result = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
rows = []
for sample in known["X"]:
    interpreter.reset_all_variables()
    interpreter.set_tensor(given, sample.reshape(1, 5, 2))
    interpreter.invoke()
    rows.append(interpreter.get_tensor(result).reshape(-1).copy())
np.savez_compressed(FOLDER / "recurrent.npz", **{**known, "lstm_fused": np.array(rows)})
