"""Makes the recurrent TensorFlow Lite files beside it, and `recurrent.npz`: some samples, and what TensorFlow's interpreter makes of
them by the name of each file. `python make_recurrent.py` with TensorFlow 2.21 and Keras 3.15; weights are random."""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

STEPS, FEATURES = 5, 2

LAYERS = {
    "lstm": lambda: [keras.layers.LSTM(3)],
    "gru_states": lambda: [keras.layers.GRU(3, return_sequences=True), keras.layers.LSTM(2, go_backwards=True)],
    "both_ways": lambda: [keras.layers.Bidirectional(keras.layers.GRU(2, reset_after=False, return_sequences=True))],
    "lstm_unrolled": lambda: [
        keras.layers.LSTM(3, unroll=True, return_sequences=True),
        keras.layers.SimpleRNN(2, unroll=True),
    ],
    "both_ways_unrolled": lambda: [keras.layers.Bidirectional(keras.layers.GRU(2, unroll=True))],
}

results = {"X": np.random.default_rng(0).normal(0, 1.5, (6, STEPS * FEATURES)).astype(np.float32)}
for name, layers in LAYERS.items():
    keras.utils.set_random_seed(len(name))
    model = keras.Sequential([keras.Input((STEPS, FEATURES), batch_size=1), *layers()])
    random = np.random.default_rng(len(name))
    model.set_weights([random.normal(0, 0.7, weights.shape) for weights in model.get_weights()])
    content = tf.lite.TFLiteConverter.from_keras_model(model).convert()
    (Path(__file__).parent / f"{name}.tflite").write_bytes(content)
    interpreter = tf.lite.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    given, result = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    rows = []
    for sample in results["X"]:
        interpreter.set_tensor(given, sample.reshape(1, STEPS, FEATURES))
        interpreter.invoke()
        rows.append(interpreter.get_tensor(result).reshape(-1).copy())
    results[name] = np.array(rows)
np.savez_compressed(Path(__file__).parent / "recurrent.npz", **results)
