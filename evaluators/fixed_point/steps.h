/* One step of a program, and the steps of a block of samples, with the loops around them. */

static void step(Machine *m, int32_t block, const Step *s)
{
    const int32_t *row = m->rows + (int64_t)s->row * COLUMNS;
    switch (s->opcode) {
    case OP_Fill: fill(m, s, row); break;
    case OP_Add: case OP_Subtract: case OP_Multiply: binary(m, s, row); break;
    case OP_Select: binary(m, s, row); sum_margins(m, block); break;
    case OP_Dot: dot(m, s, row); break;
    case OP_MaxPool: maxpool(m, s, row); break;
    case OP_Table: table(m, s, row); break;
    case OP_NormaliseL2: normalise(m, s, row); break;
    case OP_ArgMax: argmax(m, s); sum_margins(m, block); break;
    case OP_Sign: sign(m, s); sum_margins(m, block); break;
#ifndef WIDE_VALUES
    case OP_Relu:
        if (row[SHIFT_OUT] >= -15 && row[SHIFT_OUT] <= 15) relu(m, s, row);
        else pointwise(m, s, row);
        break;
#endif
    default: pointwise(m, s, row); break;
    }
    m->executed++;
}

/* The steps from `start` to before `end`, inside so many loops, on one block of samples. */
static void steps(Machine *m, int32_t block, int32_t start, int32_t end, int32_t loops)
{
    for (int32_t i = start; i < end; i++) {
        const Step *s = &m->program->steps[i];
        if (s->opcode == OP_Loop) {
            for (int32_t k = 0; k < s->n && !*m->program->stop; k++) {
                m->indices[loops] = k;
                steps(m, block, i + 1, i + 1 + s->window, loops + 1);
            }
            i += s->window;
        } else {
            step(m, block, moved_step(m, i, loops));
        }
    }
}
