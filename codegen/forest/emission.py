"""Forests as C99: comparisons that many samples meet as conditions, the rest as records that one loop walks; for an AVR in assembler beside
that, where `avr.program` can."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kilotune.codegen import ir
from kilotune.codegen.class_names import told_names
from kilotune.codegen.emit.c import CSource
from kilotune.codegen.emit.constant_arrays import FLASH_MACROS, ConstantArray, constant_array, packed_array
from kilotune.codegen.emit.interface import Interface, comment_text, header, signature
from kilotune.codegen.emit.operators import int_type
from kilotune.codegen.forest.avr.program import assembled, condition, program_lines
from kilotune.codegen.forest.integers import Branch, Given, Threshold
from kilotune.codegen.forest.plan import LOOPED, ForestPlan, Says


def emit_forest(plan: ForestPlan, name: str = "model", function: str = "predict") -> CSource:
    """The program of a plan."""
    interface = describe(plan)
    title = f"/* {comment_text(plan.forest.source.name)}: decision trees. Written by kilotune; changes will be lost. */"
    prototype = signature(interface, function)
    arrays, parts = _arrays(plan), _functions(plan)
    unread = ["(void)x;"] if all(isinstance(tree, int) for tree in plan.trees) else []
    body = [f"{prototype}\n{{\n" + "\n".join(f"    {line}" for line in (*unread, *_entry(plan))) + "\n}"]
    plain = [FLASH_MACROS.rstrip(), _NOINLINE, *(a.definition for a in arrays), *parts, *body]
    if assembled(plan):
        plain = [_assembler(plan, prototype, function), *plain, "#endif"]
    source = [title, f'#include "{name}.h"', *plain]
    flash = sum(array.size_bytes for array in arrays)
    return CSource(name, function, header(interface, title, name, prototype), "\n\n".join(source) + "\n", interface, {},
                   0, 0, 0, flash)  # fmt: skip


def _assembler(plan: ForestPlan, prototype: str, function: str) -> str:
    """The function for an AVR, up to where plain C begins."""
    program = program_lines(plan)
    text = [line.replace("@", f".L{function}_") for line in program]
    lines = [f'        "{line}\\n"' for line in text]
    return "\n".join([f"#if {condition(program)}", f"__attribute__((naked, noinline)) {prototype}", "{",
                      "    (void)x;", "    __asm__ __volatile__(", *lines, "    );", "}", "#else"])  # fmt: skip


def describe(plan: ForestPlan) -> Interface:
    """What a caller must know."""
    forest = plan.forest
    classes, features = forest.source.class_count, forest.features
    kind = ir.ResultKind.REAL if classes is None else ir.ResultKind.CLASS
    results = 1 if classes is not None else len(forest.base)
    bits = 16 if classes is not None else forest.leaves.score_bits
    scale = 0 if classes is not None else _exponent(forest.leaves.factor)
    return Interface(kind, forest.source.feature_count, features.bits, features.scale, results, bits, scale, classes or 0,
                     thresholds=forest.thresholds if features.given is Given.RANK else None,
                     class_names=told_names(forest.source.classes, classes))  # fmt: skip


def _exponent(factor: float) -> int:
    return round(math.log2(factor))


_NOINLINE = """\
#if defined(__GNUC__)
#define KT_NOINLINE static __attribute__((noinline))
#else
#define KT_NOINLINE static
#endif"""


def _arrays(plan: ForestPlan) -> list[ConstantArray]:
    arrays = list[ConstantArray]()
    if plan.node_bytes:
        arrays.append(packed_array("kt_nodes", plan.node_bytes))
    whole = _looped(plan)
    if whole:
        offsets = plan.offsets()
        arrays.append(constant_array("kt_roots", "uint16_t", [offsets[tree][0] for tree in whole], 16))
        if plan.says is Says.NUMBER and len(plan.forest.base) > 1:
            arrays.append(constant_array("kt_columns", "uint8_t", [plan.columns[tree] for tree in whole], 8))
    votes = plan.votes
    if votes is not None and votes.rows:
        arrays.append(constant_array("kt_starts", "uint16_t", votes.starts(plan.weight_bytes), 16))
        arrays.append(packed_array("kt_votes", votes.packed(plan.weight_bytes)))
    return arrays


def _weight_type(plan: ForestPlan) -> str:
    leaves = plan.forest.leaves
    return int_type(leaves.stored_bits) if leaves.signed else f"u{int_type(leaves.stored_bits)}"


def _looped(plan: ForestPlan) -> list[int]:
    """Trees that are stored whole, where they are enough for a loop."""
    whole = [
        number
        for number, tree in enumerate(plan.trees)
        if isinstance(tree, Threshold) and tree.samples < plan.least[number]
    ]
    return whole if len(whole) >= LOOPED else []


def _leaf_type(plan: ForestPlan) -> str:
    if plan.says is Says.NUMBER:
        return _weight_type(plan)
    return "uint8_t" if plan.leaf_bytes == 1 else "uint16_t"


def _functions(plan: ForestPlan) -> list[str]:
    form, votes = plan.form, plan.votes
    walks_pairs = bool(plan.node_bytes) and 2 in (form.head, form.leaf, form.skip, form.threshold)
    adds_pairs = votes is not None and bool(votes.rows) and plan.weight_bytes == 2
    made = [_PAIR] if walks_pairs or adds_pairs else []
    made += [_walk(plan)] if plan.node_bytes else []
    if plan.votes is not None:
        made.append(_add(plan))
    looped, offsets = set(_looped(plan)), plan.offsets()
    kind, face = _leaf_type(plan), describe(plan)
    for number, tree in enumerate(plan.trees):
        if number in looped or isinstance(tree, int):
            continue
        lines = _conditions(tree, plan.least[number], iter(offsets[number]), 1)
        made.append("\n".join([f"KT_NOINLINE {kind} kt_tree_{number}(const {face.input_type} *x)", "{", *lines, "}"]))
    return made


def _conditions(branch: Branch, least: float, offsets: Iterator[int], depth: int) -> list[str]:
    pad = "    " * depth
    if isinstance(branch, int):
        return [f"{pad}return {branch};"]
    if branch.samples < least:
        return [f"{pad}return kt_walk(x, kt_nodes + {next(offsets)});"]
    left = _conditions(branch.left, least, offsets, depth + 1)
    right = _conditions(branch.right, least, offsets, depth)
    return [f"{pad}if (x[{branch.feature}] <= {branch.threshold}) {{", *left, f"{pad}}}", *right]


def _read(size: int, kind: str) -> str:
    """The next bytes of a record as a number."""
    return f"({kind})KT_NEXT8(node)" if size == 1 else f"({kind})kt_next_pair(&node)"


def _walk(plan: ForestPlan) -> str:
    form, face = plan.form, describe(plan)
    left, right = form.marks
    head = "uint8_t" if form.head == 1 else "uint16_t"
    threshold, mask = face.input_type, left - 1
    leaf = f"({_leaf_type(plan)})KT_LOAD{8 * form.leaf}" if form.leaf == 1 else f"({_leaf_type(plan)})kt_pair"
    skipped = f"(head & 0x{right:x}) ? {form.leaf} : {form.skip}" if form.leaf != form.skip else f"{form.leaf}"
    early = form.leaf == form.skip
    right_of = [f"        const {_leaf_type(plan)} right = {_read(form.skip, _leaf_type(plan))};"] if early else []
    distance = "uint8_t" if form.skip == 1 else "uint16_t"
    skip = f"({distance})right" if early else _read(form.skip, distance)
    leaf_of = f"{leaf}(node)"
    return "\n".join(
        [
            f"KT_NOINLINE {_leaf_type(plan)} kt_walk(const {face.input_type} *x, const uint8_t *node)",
            "{",
            "    for (;;) {",
            f"        const {head} head = {_read(form.head, head)};",
            f"        const {threshold} threshold = {_read(form.threshold, threshold)};",
            *right_of,
            f"        if (x[head & 0x{mask:x}] <= threshold) {{",
            *([] if early else [f"            node += {skipped};"]),
            f"            if (head & 0x{left:x}) return {leaf_of};",
            "        } else {",
            f"            if (head & 0x{right:x}) return {'right' if early else leaf_of};",
            f"            const uint16_t skip = {skip};",
            "            node += skip;",
            "        }",
            "    }",
            "}",
        ]
    )


_PAIR = """\
/* two bytes, wherever they lie */
static inline uint16_t kt_pair(const uint8_t *p)
{
    return (uint16_t)(KT_LOAD_PLACE8(p) | ((uint16_t)KT_LOAD_PLACE8(p + 1) << 8));
}

static inline uint16_t kt_next_pair(const uint8_t **p)
{
    const uint16_t pair = kt_pair(*p);
    *p += 2;
    return pair;
}
"""


def _add(plan: ForestPlan) -> str:
    votes, leaf = plan.votes, _leaf_type(plan)
    assert votes is not None
    score = int_type(plan.forest.leaves.score_bits)
    kind, short = _weight_type(plan), plan.weight_bytes == 1
    added = f"score[voted >> 1] += ({kind})KT_NEXT8(at);"
    if not short:
        added = f"score[voted >> 1] = ({score})(score[voted >> 1] + ({kind})kt_next_pair(&at));"
    lines = [f"KT_NOINLINE void kt_vote({score} *score, {leaf} leaf)", "{"]
    if not votes.rows:
        return "\n".join([*lines, f"    score[leaf] += {votes.whole};", "}"])
    return "\n".join(
        [
            *lines,
            f"    if (leaf < {votes.classes}) {{",
            f"        score[leaf] += {votes.whole};",
            "        return;",
            "    }",
            f"    const uint8_t *at = kt_votes + (uint16_t)KT_LOAD16(kt_starts + (leaf - {votes.classes}));",
            "    uint8_t voted;",
            "    do {",
            "        voted = KT_NEXT_PLACE8(at);",
            f"        {added}",
            "    } while (!(voted & 1));",
            "}",
        ]
    )


def _entry(plan: ForestPlan) -> list[str]:
    if plan.says is Says.LABEL:
        return [f"return {_call(plan, 0)};"]
    count, score = len(plan.forest.base), int_type(plan.forest.leaves.score_bits)
    lines = [f"{score} score[{count}] = {{{', '.join(map(str, plan.forest.base.tolist()))}}};"]
    looped = _looped(plan)
    if looped:
        walked = "kt_walk(x, kt_nodes + (uint16_t)KT_LOAD16(kt_roots + i))"
        lines += [f"for (uint_fast16_t i = 0; i < {len(looped)}; i++) {{"]
        column = "KT_LOAD_PLACE8(kt_columns + i)" if count > 1 else "0"
        lines += [f"    {_added(plan, walked, column)}", "}"]
    for number in range(len(plan.trees)):
        if number not in looped:
            lines.append(_added(plan, _call(plan, number), str(plan.columns[number])))
    return lines + _result(plan)


def _added(plan: ForestPlan, leaf: str, column: str) -> str:
    return f"kt_vote(score, {leaf});" if plan.says is Says.VOTES else f"score[{column}] += {leaf};"


def _call(plan: ForestPlan, number: int) -> str:
    tree = plan.trees[number]
    return str(tree) if isinstance(tree, int) else f"kt_tree_{number}(x)"


def _result(plan: ForestPlan) -> list[str]:
    count = len(plan.forest.base)
    if plan.forest.source.class_count is None:
        return [f"for (uint_fast8_t i = 0; i < {count}; i++) result[i] = score[i];"]
    if count == 1:
        return ["return score[0] > 0;"]
    score = int_type(plan.forest.leaves.score_bits)
    return [
        "uint_fast8_t label = 0;",
        f"{score} best = score[0];",
        f"for (uint_fast8_t i = 1; i < {count}; i++) {{",
        "    if (score[i] > best) {",
        "        best = score[i];",
        "        label = i;",
        "    }",
        "}",
        "return label;",
    ]
