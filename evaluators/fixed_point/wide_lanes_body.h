/* One element's samples in and out, of up to 32 bits, scaled, rounded and wrapped.
 *
 * What is scaled up may be beyond 64 bits, as in the definition: it is wrapped afterwards, and only its low bits matter.
 */

static inline Number scale(Number v, int n) { return n >= 0 ? down(v, n) : v << -n; }

/* Operand values of one element, scaled by `shift`. */
static inline void load(const Machine *m, const Operand *o, int32_t index, int shift, int32_t constant, Number *restrict to)
{
    Number value = constant;
    if (o->place != LITERAL) {
        const int64_t element = element_at(o, index);
        if (o->place == DYNAMIC) {
            const Value *from = element < 0 ? m->zeros : lanes_of(m, o->variable, element);
            if (shift == 0)
                for (int l = 0; l < LANES; l++) to[l] = from[l];
            else
                for (int l = 0; l < LANES; l++) to[l] = scale(from[l], shift);
            return;
        }
        value = element < 0 ? 0 : scale(m->statics[o->variable][element], shift);
    }
    for (int l = 0; l < LANES; l++) to[l] = value;
}

/* wrap(down(v, shift), bits) into the lanes of an element. */
static inline void store(const Number *restrict v, int shift, int bits, Value *restrict to)
{
    for (int l = 0; l < LANES; l++) to[l] = (Value)wrap(scale(v[l], shift), bits);
}
