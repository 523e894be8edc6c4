// What emitted networks name of the chip's library, executed on the host transfer by transfer.
//
// Analogue registers are planes of doubles. A macro is the bus transfers that its documentation gives: a transfer writes the negated sum
// of its sources, in equal parts, into its destinations; a register is written where FLAG is set. `set_frame` gives the next frame, and
// `where` notes what it compares with 0.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

namespace host {
enum { SIDE = 256, ANALOGUE = 7, DIGITAL = 14, NEWS_INDEX = 6, FLAG_INDEX = 13 };
typedef std::vector<double> Plane;
static double analogue[ANALOGUE][SIDE][SIDE];
static bool digital[DIGITAL][SIDE][SIDE];
static uint8_t frame[SIDE][SIDE];
static std::vector<Plane> compared;

struct At { int plane, east, north; };

inline double read(const At& from, int row, int column)
{
    row -= from.north;
    column += from.east;
    return row < 0 || column < 0 || row >= SIDE || column >= SIDE ? 0.0 : analogue[from.plane][row][column];
}

// `to` may lie in other elements: an element then writes there what it sums up here.
inline void bus(const std::vector<At>& to, const std::vector<At>& from)
{
    std::vector<double> sums(SIDE * SIDE);
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            for (const At& source : from) sums[row * SIDE + column] += read(source, row, column);
    for (const At& place : to)
        for (int row = 0; row < SIDE; row++)
            for (int column = 0; column < SIDE; column++) {
                const int there = row - place.north, beside = column + place.east;
                if (there < 0 || beside < 0 || there >= SIDE || beside >= SIDE) continue;
                if (place.plane != NEWS_INDEX && !digital[FLAG_INDEX][there][beside]) continue;
                analogue[place.plane][there][beside] = -sums[row * SIDE + column] / static_cast<double>(to.size());
            }
    for (const At& place : to)  // nothing comes from beyond the edge
        for (int row = 0; row < SIDE; row++)
            for (int column = 0; column < SIDE; column++) {
                const int here = row + place.north, beside = column - place.east;
                if (here < 0 || beside < 0 || here >= SIDE || beside >= SIDE) analogue[place.plane][row][column] = 0.0;
            }
}
}  // namespace host

struct AREG { int plane; };
struct DREG { int plane; };
struct Direction { int east, north; };
static const AREG A{0}, B{1}, C{2}, D{3}, E{4}, F{5};
static const DREG R5{5}, R6{6}, R7{7}, R8{8}, R9{9}, R10{10}, R11{11}, R12{12}, FLAG{host::FLAG_INDEX};
static const Direction north{0, 1}, east{1, 0}, south{0, -1}, west{-1, 0};

namespace SCAMP5_PE {
inline host::At at(AREG a) { return {a.plane, 0, 0}; }
inline host::At news() { return {host::NEWS_INDEX, 0, 0}; }
// The NEWS of the neighbour in a direction, and of the one opposite to it.
inline host::At news_in(Direction d) { return {host::NEWS_INDEX, d.east, d.north}; }
inline host::At news_against(Direction d) { return {host::NEWS_INDEX, -d.east, -d.north}; }

inline void res(AREG a) { host::bus({news()}, {}); host::bus({at(a)}, {news()}); }
inline void res(AREG a, AREG b) { res(a); res(b); }
inline void mov(AREG y, AREG x) { host::bus({news()}, {at(x)}); host::bus({at(y)}, {news()}); }
inline void add(AREG y, AREG a, AREG b) { host::bus({news()}, {at(a), at(b)}); host::bus({at(y)}, {news()}); }
inline void add(AREG y, AREG a, AREG b, AREG c) { host::bus({news()}, {at(a), at(b), at(c)}); host::bus({at(y)}, {news()}); }
inline void sub(AREG y, AREG a, AREG b) { host::bus({news()}, {at(a)}); host::bus({at(y)}, {news(), at(b)}); }
inline void neg(AREG y, AREG x) { host::bus({news()}, {}); host::bus({at(y)}, {news(), at(x)}); }
inline void divq(AREG y, AREG x) { host::bus({at(y), news()}, {at(x)}); host::bus({at(y)}, {news()}); }
inline void div(AREG y0, AREG y1, AREG y2)
{
    host::bus({at(y0), at(y1)}, {at(y2)});
    host::bus({news()}, {at(y2), at(y1)});
    host::bus({at(y2)}, {news(), at(y0)});
    host::bus({at(y0), at(y1)}, {at(y2)});
    host::bus({at(y0)}, {at(y1)});
}
inline void div(AREG y0, AREG y1, AREG y2, AREG x)
{
    host::bus({at(y0), at(y1)}, {at(x)});
    host::bus({news()}, {at(x), at(y1)});
    host::bus({at(y2)}, {news(), at(y0)});
    host::bus({at(y0), at(y1)}, {at(y2)});
    host::bus({at(y0)}, {at(y1)});
}
inline void movx(AREG y, AREG x, Direction d) { host::bus({news_against(d)}, {at(x)}); host::bus({at(y)}, {news()}); }
inline void mov2x(AREG y, AREG x, Direction d, Direction e) { host::bus({news_against(d)}, {at(x)}); host::bus({at(y)}, {news_in(e)}); }
inline void addx(AREG y, AREG a, AREG b, Direction d) { host::bus({news_against(d)}, {at(a), at(b)}); host::bus({at(y)}, {news()}); }
inline void add2x(AREG y, AREG a, AREG b, Direction d, Direction e)
{
    host::bus({news_against(d)}, {at(a), at(b)});
    host::bus({at(y)}, {news_in(e)});
}
inline void subx(AREG y, AREG a, Direction d, AREG b) { host::bus({news_against(d)}, {at(a)}); host::bus({at(y)}, {news(), at(b)}); }
inline void sub2x(AREG y, AREG a, Direction d, Direction e, AREG b)
{
    host::bus({news_against(d)}, {at(a)});
    host::bus({at(y)}, {news_in(e), at(b)});
}

inline void all() { std::memset(host::digital[host::FLAG_INDEX], 1, sizeof host::digital[0]); }
inline void where(AREG a)
{
    host::compared.emplace_back(&host::analogue[a.plane][0][0], &host::analogue[a.plane][0][0] + host::SIDE * host::SIDE);
    for (int row = 0; row < host::SIDE; row++)
        for (int column = 0; column < host::SIDE; column++)
            host::digital[host::FLAG_INDEX][row][column] = host::analogue[a.plane][row][column] > 0;
}
inline void MOV(DREG y, DREG x) { std::memmove(host::digital[y.plane], host::digital[x.plane], sizeof host::digital[0]); }
inline void WHERE(DREG d) { MOV(FLAG, d); }
inline void CLR(DREG d) { std::memset(host::digital[d.plane], 0, sizeof host::digital[0]); }
inline void AND(DREG y, DREG a, DREG b)
{
    for (int row = 0; row < host::SIDE; row++)
        for (int column = 0; column < host::SIDE; column++)
            host::digital[y.plane][row][column] = host::digital[a.plane][row][column] && host::digital[b.plane][row][column];
}
}  // namespace SCAMP5_PE

namespace host { static int drawn; }
inline void scamp5_kernel_begin() { }
inline void scamp5_kernel_end() { }
inline void scamp5_in(AREG a, int level)
{
    for (auto& row : host::analogue[a.plane])
        for (double& element : row) element = level;
}
inline void scamp5_get_image(AREG y, AREG copy, int)  // [-128, 127] for 0 to 255
{
    SCAMP5_PE::all();
    for (int row = 0; row < host::SIDE; row++)
        for (int column = 0; column < host::SIDE; column++)
            host::analogue[y.plane][row][column] = host::analogue[copy.plane][row][column] = host::frame[row][column] - 128.0;
}
inline void scamp5_draw_begin(DREG d) { host::drawn = d.plane; SCAMP5_PE::CLR(d); }
inline void scamp5_draw_rect(int top, int left, int bottom, int right)
{
    for (int row = top; row <= bottom; row++)
        for (int column = left; column <= right; column++) host::digital[host::drawn][row][column] = true;
}
inline void scamp5_draw_end() { }
inline void scamp5_scan_events(DREG d, uint8_t* events, int most)
{
    std::memset(events, 0, 2 * static_cast<size_t>(most));
    int count = 0;
    for (int row = 0; row < host::SIDE; row++)
        for (int column = 0; column < host::SIDE && count < most; column++)
            if (host::digital[d.plane][row][column]) {
                events[2 * count] = static_cast<uint8_t>(column);
                events[2 * count++ + 1] = static_cast<uint8_t>(row);
            }
}
