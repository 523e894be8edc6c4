"""What vulture takes for unused, and who uses it. `make lint` reads this file beside the sources; nothing imports it."""

# Lark calls the methods of a tree's transformer by the names of the grammar's rules.
_.decimal
_.subscript
_.unary
_.conditional
_.maxpool
_.blocks_maxpool
_.interval

# Alembic reads these of every migration.
revision
down_revision

# ONNX Runtime's quantiser asks for samples by it.
_.get_next

# Amaranth's modules collect what is assigned in a clock domain, and elaborate what they hold.
_.sync
_.elaborate

# Kinds of gates, which boards and reports go through by name.
luts
flip_flops
block_rams
multipliers

# Python calls it for every class that is derived.
__init_subclass__

# CP-SAT reads the parameters of its solver, and onnxruntime those of a session.
_.num_workers
_.random_seed
_.max_time_in_seconds
_.max_deterministic_time
_.linearization_level
_.symmetry_level
_.search_branching
_.catch_sigint_signal
_.log_severity_level
_.intra_op_num_threads
_.graph_optimization_level

# The standard library's servers, Ray, Rich, Plotly and Click read or call these.
_.get_invalid_choice_message
_.daemon_threads
_.log_message
_.server_name
_.server_port
_.print_to_stdstream
_.transient
_.scaleanchor
_.shell_complete

# Notebooks show it, and their users call it.
_._repr_html_
_.to_dataframe

# Werkzeug reads these of converters of addresses.
regex
part_isolating

# Parts of what a data class holds, for whoever reads the whole.
K
L
input_elements
new_evaluations
DataclassInstance

# Python calls these of a module whose names are imported when they are asked for.
__getattr__
__dir__

# pytest reads these of modules, and calls these.
pytestmark
pytest_plugins
pytest_collection_modifyitems
_.dont_write_bytecode
alarm
_._conv
_._normal
_._concat
_._pad

# Rows of spaces/objectives.py name these options.
_.cycles_limit
_.latency_limit_ms

# C reads it of a structure.
_.target_shape

# Optuna asks its samplers.
_.infer_relative_search_space

# problems/fixed_point/problem.py names it in a text that is called before the clock starts.
load_all_roundings
