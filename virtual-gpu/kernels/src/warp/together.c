// Completes operations of a warp whose lanes wait at several places, on the arrays that they left (`ops.rs`): what
// `ready_lanes` of eager-exec's `schedule.rs` does with wait records. `together.ll` is made from this file
// (`EAGER_BLESS=1 cargo test -p eager-kernels --test library`).
//
// Trap: the result, and which lanes go on together, must be those of that function in every case; where lanes wait for
// each other at two places of the program it says that it does not know, and the lanes write records.

typedef unsigned word;

enum { LANES = 32, VALUE = 0, HIGH = 128, MASK = 256, ARGUMENT = 384, CONTROL = 512, RESULT = 640, PREDICATE = 768, VOTE = 800,
       NEXT = 896 };
enum { SYNC = 4, UP = 5, DOWN = 6, XOR = 7, INDEX = 8, ALL = 9, ANY = 10, UNIFORM = 11, BALLOT = 12, MATCH_ANY = 13, MATCH_ALL = 14,
       ADD = 15, MIN = 16, MAX = 17, UMIN = 18, UMAX = 19, AND = 20, OR = 21, ACTIVE_MASK = 23 };
enum { MASK_KNOWN = 1, ARGUMENT_KNOWN = 2, CONTROL_KNOWN = 4, WIDE = 8 };

// A place where lanes wait; the place of number n is the n-th.
typedef struct { word kind, flags, mask, argument, control; } Place;

static word *words(char *op, int at) { return (word *)(op + at); }

static word equal(const word *values, word to) {
    word found = 0;
    for (int lane = 0; lane < LANES; lane++) found |= (word)(values[lane] == to) << lane;
    return found;
}

static word operation(word kind, word one, word other) {
    switch (kind) {
    case ADD: return one + other;
    case MIN: return (int)one < (int)other ? one : other;
    case MAX: return (int)one > (int)other ? one : other;
    case UMIN: return one < other ? one : other;
    case UMAX: return one > other ? one : other;
    case AND: return one & other;
    case OR: return one | other;
    default: return one ^ other;
    }
}

// The lane that each lane reads from, its own where that is outside the segment, which `inside` says. One loop for each
// kind, so that they become vectors.
static void sources(word kind, const word *arguments, const word *controls, int *from, char *inside) {
#define EACH(SOURCE, HOLDS)                                                                                  \
    for (int lane = 0; lane < LANES; lane++) {                                                               \
        const int distance = arguments[lane] & 31, segment = controls[lane] >> 8 & 31;                       \
        const int least = lane & segment, most = least | (controls[lane] & 31 & ~segment), source = SOURCE;  \
        const int holds = HOLDS;                                                                             \
        from[lane] = holds ? source : lane;                                                                  \
        inside[lane] = (char)holds;                                                                          \
    }                                                                                                        \
    break
    switch (kind) {
    case UP: EACH(lane - distance, source >= most);
    case DOWN: EACH(lane + distance, source <= most);
    case XOR: EACH(lane ^ distance, source <= most);
    default: EACH(least | (distance & ~segment), source <= most);
    }
}

static const word *known(const Place *place, word flag, word value, const word *values, word *filled) {
    if (!(place->flags & flag)) return values;
    for (int lane = 0; lane < LANES; lane++) filled[lane] = value;
    return filled;
}

// Lanes that the mask does not name read from themselves and those that it names; these also from the last such lane.
static void shuffle(char *op, const Place *place, word named, word others) {
    const word *values = words(op, VALUE);
    word *results = words(op, RESULT);
    const word last = others ? 1u << (31 - __builtin_clz(others)) : 0;
    word distances[LANES], segments[LANES];
    int from[LANES];
    char inside[LANES];
    sources(place->kind, known(place, ARGUMENT_KNOWN, place->argument, words(op, ARGUMENT), distances),
            known(place, CONTROL_KNOWN, place->control, words(op, CONTROL), segments), from, inside);
    for (word left = named | others; left; left &= left - 1) {
        const int lane = __builtin_ctz(left), source = from[lane];
        const word members = named | (named >> lane & 1 ? last : 1u << lane);
        results[lane] = values[members >> source & 1 ? source : lane];
        op[PREDICATE + lane] = inside[lane];
    }
}

static void complete(char *op, const Place *place, word members) {
    const word *values = words(op, VALUE), *highs = words(op, HIGH);
    word *results = words(op, RESULT);
    char *flags = op + PREDICATE;
    const word kind = place->kind;
    word common = 0, flag = 0;
    if (kind <= BALLOT) {
        word votes = 0;
        for (int lane = 0; lane < LANES; lane++) votes |= (word)(op[VOTE + lane] & 1) << lane;
        votes &= members;
        common = kind == ALL ? votes == members : kind == ANY ? votes != 0
            : kind == UNIFORM ? votes == 0 || votes == members : votes;
    } else if (kind >= ADD) {
        common = values[__builtin_ctz(members)];
        for (word left = members & (members - 1); left; left &= left - 1)
            common = operation(kind, common, values[__builtin_ctz(left)]);
    }
    for (word left = members; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        if (kind == MATCH_ANY || kind == MATCH_ALL) {
            common = equal(values, values[lane]) & members;
            if (place->flags & WIDE) common &= equal(highs, highs[lane]);
            if (kind == MATCH_ALL) {
                flag = common == members;
                common = flag ? members : 0;
            }
        }
        results[lane] = common;
        flags[lane] = (char)flag;
    }
}

// Returns the lanes that go on, with their results in the arrays; 0 if it does not know, or none can.
word eagerwarp_ready(char *op, const Place *places, word count) {
    const word *next = words(op, NEXT);
    word alive = ~equal(next, 0), left = alive, ready = 0, groups = 0, first_place = ~0u, asking = 0;
    struct { const Place *place; word named, others; } done[LANES];
    while (left) {
        const int lane = __builtin_ctz(left);
        const word number = next[lane];
        word group = equal(next, number) & left;
        if (number > count) {
            ready |= group;
            left &= ~group;
            continue;
        }
        const Place *place = &places[number - 1];
        if (place->kind == ACTIVE_MASK) {
            if (place->argument < first_place) first_place = place->argument, asking = 0;
            if (place->argument == first_place) asking |= group;
            left &= ~group;
            continue;
        }
        if (place->kind < SYNC || place->kind > ACTIVE_MASK) {
            left &= ~group;
            continue;
        }
        word mask = place->mask;
        if (!(place->flags & MASK_KNOWN)) {
            mask = words(op, MASK)[lane];
            group &= equal(words(op, MASK), mask);
        }
        left &= ~group;
        const word named = mask & alive, elsewhere = named & ~group;
        // A lane elsewhere may wait at an operation of the same kind with the same mask, or for ever.
        for (word rest = elsewhere; rest; rest &= rest - 1) {
            const int other = __builtin_ctz(rest);
            const word at = next[other];
            if (at > count || places[at - 1].kind != place->kind) continue;
            const word theirs = places[at - 1].flags & MASK_KNOWN ? places[at - 1].mask : words(op, MASK)[other];
            if (theirs == mask) return 0;
        }
        if (elsewhere) continue;
        done[groups].place = place;
        done[groups].named = named;
        done[groups].others = group & ~named;
        groups++;
        ready |= group;
    }
    for (word at = 0; at < groups; at++) {
        const Place *place = done[at].place;
        const word named = done[at].named;
        if (place->kind == SYNC) continue;
        if (place->kind <= INDEX) {
            shuffle(op, place, named, done[at].others);
            continue;
        }
        if (!done[at].others) complete(op, place, named);
        for (word rest = done[at].others; rest; rest &= rest - 1) complete(op, place, named | (rest & -rest));
    }
    if (ready) return ready;
    for (word rest = asking; rest; rest &= rest - 1) words(op, RESULT)[__builtin_ctz(rest)] = asking;
    return asking;
}
