"""Makes `stream.tflite` beside it, one step of a stream whose states are variables, and `stream.npz`: samples of seven frames, and what
TensorFlow's interpreter returns behind the last one. `python make_stream.py` with TensorFlow 2.21; weights are random."""

from pathlib import Path

import numpy as np
import tensorflow as tf

FOLDER = Path(__file__).parent
RANDOM = np.random.default_rng(2)


def draw(*shape):
    return tf.constant(RANDOM.normal(0, 0.5, shape).astype(np.float32))


class Stream(tf.Module):
    """A convolution over the last three frames, kept in a ring, and a recurrent layer that begins with other numbers than zeros."""

    def __init__(self):
        self.ring = tf.Variable(tf.zeros((1, 2, 4)), trainable=False)
        self.state = tf.Variable(draw(1, 5), trainable=False)
        self.kernel, self.weights, self.recurrent, self.out = draw(12, 6), draw(6, 5), draw(5, 5), draw(5, 3)

    @tf.function(input_signature=[tf.TensorSpec((1, 1, 4), tf.float32)])
    def __call__(self, frame):
        window = tf.concat([self.ring, frame], axis=1)
        self.ring.assign(window[:, 1:, :])
        seen = tf.nn.relu(tf.reshape(window, (1, 12)) @ self.kernel)
        self.state.assign(tf.tanh(seen @ self.weights + self.state @ self.recurrent))
        return self.state @ self.out + tf.reduce_mean(frame)


model = Stream()
converter = tf.lite.TFLiteConverter.from_concrete_functions([model.__call__.get_concrete_function()], model)
vars(converter).update(experimental_enable_resource_variables=True)
content = converter.convert()
(FOLDER / "stream.tflite").write_bytes(content)
samples = RANDOM.normal(0, 1, (12, 7, 4)).astype(np.float32)
rows = []
for sample in samples:
    interpreter = tf.lite.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    given, result = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    for frame in sample:
        interpreter.set_tensor(given, frame.reshape(1, 1, 4))
        interpreter.invoke()
    rows.append(interpreter.get_tensor(result).reshape(-1).copy())
np.savez_compressed(FOLDER / "stream.npz", X=samples.reshape(12, -1), results=np.array(rows))
