/* bf.h - calipers for programs compiled with bf-clang or bf-clang++.
 *
 * Compiled by any other compiler, everything here does nothing and needs no library. bf-clang defines __BF__.
 * All of it holds for the whole process, from the moment of the call, in every thread.
 */
#ifndef BF_H
#define BF_H

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __BF__

/* Counting is on while bf_start was called at least as often as bf_stop, so it is on at the beginning, and pairs nest.
 * To count one region only: bf_stop() at the beginning of main, then bf_start(); the region; bf_stop();
 * What is accessed while counting is off moves the stacks of the model and is not counted; with BF_STOP=ignore in the
 * environment it is as if it had not happened. */
void bf_start(void);
void bf_stop(void);

/* From now on accesses count under this name; NULL and "" are the name that holds at the beginning. The text is copied.
 * A process may use 252 names; all further ones count as "(more tags)". */
void bf_tag(const char *name);

/* Up to the bf_pop that belongs to it accesses count under this name within the one that holds now: bf_push("solve") and
 * then bf_push("smooth") make "solve/smooth". bf_tag in between replaces the innermost name; bf_pop brings back the name that
 * held before. Whoever asks for "solve" gets what is in it too. */
void bf_push(const char *name);
void bf_pop(void);

#else

static inline void bf_start(void) {}
static inline void bf_stop(void) {}
static inline void bf_tag(const char *name) { (void)name; }
static inline void bf_push(const char *name) { (void)name; }
static inline void bf_pop(void) {}

#endif

#ifdef __cplusplus
}
#endif

#endif
