/*
 * The protocol between the owner of spans and threads that free in them, as a model for spin(1).
 * tests/alloc/spans/check_model.sh searches it whole, within the bounds below. It follows
 * blocks.c, spans.c and threads.c step by step: what one step here does is one access to what threads
 * share, or any number of accesses to what only one thread or the holder of the lock touches. Only
 * a push is one step, too: until a record is in a queue, its link belongs to the one who queues it.
 *
 * What it shows, for any order of steps, with memory that is sequentially consistent:
 *  - no block is handed out while somebody has it;
 *  - a free of a live block is never taken for an error, and a second free of a block always is, if
 *    it begins after the first one has ended, or both are other threads' than the owner. If the
 *    owner's and another thread's run at the same time, it may be missed; the block is then handed
 *    out once, as if it had been freed once;
 *  - no record is in two queues, or twice in one; and whose units, states and lists a thread changes
 *    are its own, or nobody else's while it holds the lock;
 *  - once all threads rest, a block that another thread freed has been collected, or its span is in
 *    the queue of its present owner or in the orphanage's, which every thread looks at, or a missing
 *    thread's, whose blocks are all looked at; and all blocks are accounted for.
 *
 * Switches, each of which breaks one of these; check_model.sh sees that spin finds it:
 *   RECORD_AFTER   a free reads what record the span has after it has exchanged the state
 *   CLEAR_AFTER    a drain clears `queued` after it has looked at the states. The same as a look
 *                  that a processor moves in front of the clearing
 *   QUEUED_BEFORE  a free reads `queued` before it has exchanged the state. The same as a load
 *                  that a processor moves in front of the exchange
 *   NOT_CLOSED     a thread that ends leaves its queue open
 *   NO_RECHECK     a free does not look, after queueing a span, whether the owner is still the same
 *   NO_SECOND_LOOK an owner that gives a span away does not look, afterwards, whether it was queued
 *                  meanwhile
 *   RESET_QUEUED   a record that is used again starts with `queued` cleared
 *   CHILD_QUEUES   in a forked child, queues stay as they are, and only `queued` of spans whose
 *                  threads are missing is cleared
 *   MISSING_QUEUES in a forked child, queues of threads that its parent lacked already stay
 *
 * Bounds: units of the region; records, one class's if they are equal modulo CLASSES; blocks a span;
 * threads that do everything (OWNERS), and threads that only free (FREERS); and how often, in all
 * threads together, a block is allocated, a thread ends, and a block is freed a second time. With
 * FORKS, a thread forks so often, at any time at which the lock is free; the model goes on with the
 * child, where the others stand still for ever wherever they are.
 */
#ifndef UNITS
#define UNITS 1
#endif
#ifndef RECORDS
#define RECORDS 2
#endif
#ifndef CLASSES
#define CLASSES 2
#endif
#ifndef BLOCKS
#define BLOCKS 2
#endif
#ifndef OWNERS
#define OWNERS 2
#endif
#ifndef FREERS
#define FREERS 1
#endif
#ifndef ALLOCATIONS
#define ALLOCATIONS 3
#endif
#ifndef ENDS
#define ENDS 1
#endif
#ifndef DOUBLES
#define DOUBLES 0
#endif
#ifdef FORKS
#define UNLESS_FORKED provided (alone == 0 || alone == _pid)
#else
#define UNLESS_FORKED
#endif

/* States. NONE, of an address that is no block's, is left out. */
#define FREE 0
#define STACKED 1
#define LIVE 2
#define REMOTE 3

/* Owners: nobody, the local heaps 1 to OWNERS, the orphanage. */
#define NOBODY 0
#define ORPHANAGE (OWNERS + 1)
#define NIL RECORDS /* no record */
#define CLOSED (RECORDS + 1) /* a queue of a local heap that has no thread */
#define AWAY UNITS  /* no unit: the record waits for use */

/* Shared. A block is named by record * BLOCKS + index. */
byte state[RECORDS * BLOCKS];
byte owner_of[RECORDS], next_queued[RECORDS], unit_of[RECORDS];
bool queued[RECORDS];
byte entry_owner[UNITS], entry_record[UNITS];
byte queue[OWNERS + 2];
bool lock;

/* The owner's, or the lock's for the orphanage's. A stack holds one block: its name and 1, or 0. The
 * mask has the current group's free blocks, which `free` no longer counts. */
byte free[RECORDS];
bool listed[RECORDS];
byte stack[(OWNERS + 2) * CLASSES], current[(OWNERS + 2) * CLASSES], mask[(OWNERS + 2) * CLASSES];
bool in_use[OWNERS + 2]; /* the local heap has a thread */
bool warm[OWNERS + 2];   /* it had one, and waits for another with all that it has */
bool missing[OWNERS + 2]; /* in a forked child: what it has waits for whoever needs it */

/* What the model alone knows: which blocks somebody has, and which of them somebody is about to free;
 * which records are in a queue; the pointer that is to be freed a second time. */
bool handed[RECORDS * BLOCKS], claimed[RECORDS * BLOCKS], in_queue[RECORDS];
byte again_unit = UNITS, again_index;
bool again_given, spoiled; /* spoiled: a second free hit a block that was handed out anew */
byte loose; /* blocks that somebody has and nobody is about to free */
byte allocations, ends, alone, forks; /* alone: the thread that forked */

#define BIN(local, class) ((local) * CLASSES + (class))
#define CLASS(record) ((record) % CLASSES)
#define BLOCK(record, index) ((record) * BLOCKS + (index))

inline take_lock() { atomic { !lock -> lock = true } }
inline give_lock() { lock = false }

/* The caller has turned `queued` on, so the record's link is its own. */
inline push(to, record)
{
    atomic {
        if
        :: queue[to] == CLOSED -> pushed = false
        :: else ->
            assert(to != NOBODY && !in_queue[record] && queued[record]);
            next_queued[record] = queue[to];
            queue[to] = record;
            in_queue[record] = true;
            pushed = true
        fi
    }
}

/* Takes the first of what was taken from a queue. */
inline take_first(record, chain)
{
    atomic {
        record = chain;
        chain = next_queued[record];
        next_queued[record] = 0; /* nobody reads it again: fewer states */
        in_queue[record] = false
    }
}

/* Leaves an owner's queue to all. */
inline hand_over(who)
{
    atomic {
        if
        :: queue[who] != CLOSED -> other = queue[who]; queue[who] = NIL
        :: else
        fi
    }
    do
    :: other != NIL ->
        take_first(record, other);
        push(ORPHANAGE, record)
    :: else -> break
    od
}

/* hf_span_queue(): queues a span with its owner. The owner may change meanwhile, and the former one
 * may not look into its queue for long: then the whole queue goes to the orphanage's. */
inline queue_span(record)
{
    do
    :: to = owner_of[record];
       if
       :: to == NOBODY ->
        queued[record] = false;
        to = owner_of[record];
        if
        :: to != NOBODY -> /* taken meanwhile, and perhaps freed into */
            atomic {
                if
                :: queued[record] -> to = NOBODY
                :: else -> queued[record] = true
                fi
            }
        :: else
        fi
       :: else
       fi;
       if
       :: to == NOBODY -> break
       :: else -> push(to, record)
       fi;
       if
       :: pushed -> break
       :: else
       fi
    od;
#ifndef NO_RECHECK
    if
    :: to != NOBODY && to != ORPHANAGE && owner_of[record] != to ->
        hand_over(to)
    :: else
    fi;
#endif
    atomic { to = 0; pushed = false }
}

inline collect(record)
{
    at = 0;
    do
    :: atomic {
        at < BLOCKS ->
        if
        :: state[BLOCK(record, at)] == REMOTE ->
            state[BLOCK(record, at)] = FREE;
            free[record]++
        :: else
        fi;
        at++
       }
    :: atomic { at == BLOCKS -> at = 0; break }
    od
}

/* Of a thread that is missing, the states alone tell. */
inline recount(record)
{
    d_step {
        free[record] = 0;
        at = 0;
        do
        :: at < BLOCKS && state[BLOCK(record, at)] != LIVE ->
            state[BLOCK(record, at)] = FREE;
            free[record]++;
            at++
        :: at < BLOCKS && state[BLOCK(record, at)] == LIVE -> at++
        :: else -> break
        od;
        at = 0
    }
}

/* Gives a span to a local heap or to the orphanage. With the lock. */
inline own(to, record)
{
    owner_of[record] = to;
    entry_owner[unit_of[record]] = to
}

/* hf_span_end(): with the lock; wholly free, and in no list. The record waits for its class's next
 * span, the unit for any. */
inline give_away(record)
{
    owner_of[record] = NOBODY;
    atomic {
        assert(free[record] == BLOCKS);
        entry_owner[unit_of[record]] = NOBODY;
        entry_record[unit_of[record]] = NIL;
        unit_of[record] = AWAY;
        listed[record] = false
    }
}

/* hf_span_reached(): lists a span; a wholly free one is given away or stays, as may be. */
inline reached(record)
{
    atomic {
        if
        :: record != current[BIN(me, CLASS(record))] && free[record] != 0 -> listed[record] = true
        :: else
        fi
    }
    if
    :: record != current[BIN(me, CLASS(record))] && free[record] == BLOCKS && !queued[record] ->
        if
        :: take_lock();
           give_away(record);
#ifndef NO_SECOND_LOOK
           if
           :: queued[record] -> hand_over(me); pushed = false
           :: else
           fi;
#endif
           give_lock()
        :: skip
        fi
    :: else
    fi
}

inline drain_own()
{
    if
    :: queue[me] != NIL ->
        atomic { chain = queue[me]; queue[me] = NIL }
        do
        :: chain != NIL ->
            take_first(record, chain);
            if
            :: owner_of[record] != me -> queue_span(record)
            :: else ->
#ifdef CLEAR_AFTER
                collect(record);
                queued[record] = false;
#else
                queued[record] = false;
                collect(record);
#endif
                reached(record)
            fi
        :: else -> break
        od;
        atomic { chain = NIL; record = NIL }
    :: else
    fi
}

/* The lock is held. */
inline drain_orphans()
{
    if
    :: queue[ORPHANAGE] != NIL ->
        atomic { chain = queue[ORPHANAGE]; queue[ORPHANAGE] = NIL }
        do
        :: chain != NIL ->
            take_first(record, chain);
            if
            :: owner_of[record] != ORPHANAGE -> queue_span(record)
            :: else ->
                queued[record] = false;
                collect(record);
                if
                :: free[record] == BLOCKS && !queued[record] -> give_away(record)
                :: else
                fi
            fi
        :: else -> break
        od;
        atomic { chain = NIL; record = NIL }
    :: else
    fi
}

/* hf_spans_leave(): what a local heap has goes to the orphanage. With the lock. */
inline leave(who)
{
    d_step {
        record = 0;
        do
        :: record < CLASSES ->
            if
            :: stack[BIN(who, record)] != 0 ->
                at = stack[BIN(who, record)] - 1;
                state[at] = FREE;
                free[at / BLOCKS]++;
                stack[BIN(who, record)] = 0
            :: else
            fi;
            at = 0;
            do
            :: at < BLOCKS && (mask[BIN(who, record)] & (1 << at)) != 0 ->
                free[current[BIN(who, record)]]++;
                at++
            :: at < BLOCKS && (mask[BIN(who, record)] & (1 << at)) == 0 -> at++
            :: else -> break
            od;
            mask[BIN(who, record)] = 0;
            current[BIN(who, record)] = NIL;
            record++
        :: else -> break
        od;
        record = 0;
        at = 0
    }
    do
    :: record < RECORDS && owner_of[record] != who -> record++
    :: record < RECORDS && owner_of[record] == who ->
        own(ORPHANAGE, record);
        if
        :: atomic { missing[who] -> listed[record] = false }
           recount(record)
        :: atomic { !missing[who] -> listed[record] = false }
           collect(record)
        fi;
        if
        :: free[record] == BLOCKS && !queued[record] -> give_away(record)
        :: else
        fi;
        record++
    :: else -> break
    od;
    atomic {
        chain = queue[who];
#ifdef NOT_CLOSED
        queue[who] = NIL
#else
        queue[who] = CLOSED
#endif
    }
    do
    :: chain != NIL ->
        take_first(record, chain);
        queue_span(record)
    :: else -> break
    od;
    atomic { chain = NIL; record = NIL }
}

/* A block of the record's is handed out. */
inline hand_out(block)
{
    assert(owner_of[(block) / BLOCKS] == me && !handed[block]);
    state[block] = LIVE;
    handed[block] = true;
    loose++
}

inline find_orphan()
{
    atomic {
        record = 0;
        do
        :: record < RECORDS && !(CLASS(record) == class && owner_of[record] == ORPHANAGE &&
                                 free[record] != 0) -> record++
        :: else -> break
        od
    }
}

inline find_listed()
{
    record = 0;
    do
    :: record < RECORDS && !(CLASS(record) == class && listed[record] && owner_of[record] == me) ->
        record++
    :: else -> break
    od
}

/* A span for the current place of a class: a listed one, one from the orphanage, where a warm
 * or missing local heap leaves its own, or a new one. The queue is looked into every now and then,
 * and always before a span is had from elsewhere. */
inline refill()
{
    if
    :: drain_own()
    :: skip
    fi;
    if
    :: queue[ORPHANAGE] != NIL -> take_lock(); drain_orphans(); give_lock()
    :: else
    fi;
    do
    :: d_step { /* only the owner changes what is FREE */
        current[BIN(me, class)] != NIL && free[current[BIN(me, class)]] != 0 ->
        record = current[BIN(me, class)];
        at = 0;
        do
        :: at < BLOCKS && state[BLOCK(record, at)] == FREE ->
            mask[BIN(me, class)] = mask[BIN(me, class)] | (1 << at);
            free[record]--;
            at++
        :: at < BLOCKS && state[BLOCK(record, at)] != FREE -> at++
        :: else -> break
        od;
        at = 0
       }
       assert(free[record] == 0 && mask[BIN(me, class)] != 0);
       record = NIL;
       break
    :: atomic {
        (current[BIN(me, class)] == NIL || free[current[BIN(me, class)]] == 0) ->
        current[BIN(me, class)] = NIL;
        find_listed()
       }
       if
       :: record == RECORDS && queue[me] != NIL -> drain_own(); atomic { find_listed() }
       :: else
       fi;
       if
       :: atomic { record < RECORDS -> listed[record] = false; current[BIN(me, class)] = record }
       :: else ->
        take_lock();
        drain_orphans();
        find_orphan();
        if
        :: record == RECORDS && (warm[1] || warm[OWNERS] || missing[1] || missing[OWNERS]) ->
            atomic {
                to = 1;
                do
                :: !warm[to] && !missing[to] -> to++
                :: else -> break
                od;
                taken = to;
                to = 0;
                warm[taken] = false;
                record = NIL
            }
            leave(taken);
            missing[taken] = false;
            taken = 0;
            find_orphan()
        :: else
        fi;
        if
        :: record < RECORDS ->
            own(me, record);
            collect(record)
        :: else ->
            atomic {
                record = class;
                unit = 0;
                do
                :: record < RECORDS && unit_of[record] != AWAY -> record = record + CLASSES
                :: else -> break
                od;
                do
                :: unit < UNITS && entry_record[unit] != NIL -> unit++
                :: else -> break
                od;
                if
                :: record >= RECORDS || unit == UNITS -> record = NIL
                :: else
                fi
            }
            if
            :: record != NIL ->
                d_step {
                    at = 0;
                    do
                    :: at < BLOCKS -> state[BLOCK(record, at)] = FREE; at++
                    :: else -> break
                    od;
                    at = 0;
                    free[record] = BLOCKS;
                    unit_of[record] = unit;
                    entry_record[unit] = record;
#ifdef RESET_QUEUED
                    queued[record] = false
#endif
                }
                own(me, record)
            :: else
            fi;
            unit = 0
        fi;
        give_lock();
        if
        :: record == NIL -> break /* no memory */
        :: else -> atomic { current[BIN(me, class)] = record; record = NIL }
        fi
       fi
    od
}

inline allocate()
{
    if
    :: stack[BIN(me, class)] == 0 && mask[BIN(me, class)] == 0 -> refill()
    :: else
    fi;
    atomic {
        if
        :: stack[BIN(me, class)] != 0 ->
            at = stack[BIN(me, class)] - 1;
            stack[BIN(me, class)] = 0;
            hand_out(at)
        :: stack[BIN(me, class)] == 0 && mask[BIN(me, class)] != 0 ->
            at = 0;
            do
            :: (mask[BIN(me, class)] & (1 << at)) == 0 -> at++
            :: else -> break
            od;
            mask[BIN(me, class)] = mask[BIN(me, class)] & ~(1 << at);
            at = BLOCK(current[BIN(me, class)], at);
            hand_out(at)
        :: else
        fi;
        at = 0
    }
}

/* The heap says that a pointer is not a live block's. */
inline found() { assert(again_given); goto next }

/* The heap takes a block back. */
inline taken_back(block)
{
    assert(handed[block]);
    if
    :: !claimed[block] -> assert(again_given); spoiled = true; loose--
    :: else
    fi;
    handed[block] = false;
    claimed[block] = false
}

/* Frees the block with that index in the unit. */
inline give_back()
{
    to = entry_owner[unit];
    if
    :: to == NOBODY -> found()
    :: to != NOBODY && to == me ->
        atomic { record = entry_record[unit]; block = BLOCK(record, index) }
        if
        :: state[block] != LIVE -> found()
        :: else
        fi;
        atomic {
            if
            :: state[block] == LIVE -> taken_back(block)
            :: else -> assert(again_given) /* another thread frees it at the same time */
            fi;
            if
            :: stack[BIN(me, CLASS(record))] == 0 ->
                state[block] = STACKED;
                stack[BIN(me, CLASS(record))] = block + 1
            :: else ->
                state[block] = FREE;
                free[record]++
            fi
        }
        reached(record)
    :: else ->
        record = entry_record[unit];
        if
        :: record == NIL -> found()
        :: else -> block = BLOCK(record, index)
        fi;
#ifdef QUEUED_BEFORE
        was = queued[record];
#endif
        atomic {
            if
            :: state[block] != LIVE -> found()
            :: else -> taken_back(block); state[block] = REMOTE
            fi
        }
#ifdef RECORD_AFTER
        record = entry_record[unit];
        assert(record != NIL);
#endif
#ifndef QUEUED_BEFORE
        was = queued[record];
#endif
        if
        :: !was -> atomic { was = queued[record]; queued[record] = true }
        :: else
        fi;
        if
        :: !was -> queue_span(record)
        :: else
        fi
    fi
}

/* Any block that somebody has and nobody else is about to free: pointers go from thread to thread. */
inline choose()
{
    at = loose;
    do
    :: !handed[block] || claimed[block] -> block++
    :: handed[block] && !claimed[block] && at > 1 -> block++; at--
    :: handed[block] && !claimed[block] -> break
    od;
    at = 0
}

/* A thread ends: its local heap stays warm for another one, or is left to all. */
inline end()
{
    drain_own();
    take_lock();
    if
    :: warm[me] = true
    :: leave(me)
    fi;
    atomic { in_use[me] = false; me = NOBODY }
    give_lock()
}

/* Takes a local heap that no thread has, a warm one first. */
inline begin()
{
    me = 1;
    do
    :: me < ORPHANAGE && !warm[me] -> me++
    :: else -> break
    od;
    if
    :: me < ORPHANAGE -> warm[me] = false
    :: else ->
        me = 1;
        do
        :: in_use[me] || missing[me] -> me++
        :: else -> break
        od;
        queue[me] = NIL
    fi;
    in_use[me] = true
}

/* All threads rest. */
inline check()
{
    d_step {
        record = 0;
        do
        :: record < RECORDS ->
            assert(queued[record] == in_queue[record]);
            in_queue[record] = false;
            record++
        :: else -> break
        od;
        record = NIL;
        /* in_queue: of the present owner, or of the orphanage */
        at = 1;
        do
        :: at <= ORPHANAGE ->
            record = queue[at];
            assert(record == NIL || at == ORPHANAGE ||
                (in_use[at] || warm[at] || missing[at]) == (record != CLOSED));
            do
            :: record < NIL ->
                assert(!in_queue[record]);
                in_queue[record] = at == ORPHANAGE || owner_of[record] == at;
                record = next_queued[record]
            :: else -> break
            od;
            at++
        :: else -> break
        od;
        block = 0;
        do
        :: block < RECORDS * BLOCKS ->
            assert(state[block] != REMOTE || in_queue[block / BLOCKS] ||
                missing[owner_of[block / BLOCKS]]);
            /* Each block is handed out, in a stack or a mask, free, or freed elsewhere. */
            assert(spoiled || unit_of[block / BLOCKS] == AWAY || handed[block] == (state[block] == LIVE));
            block++
        :: else -> break
        od;
        record = 0;
        do
        :: record < RECORDS ->
            assert(unit_of[record] == AWAY || owner_of[record] == entry_owner[unit_of[record]]);
            at = 0;
            block = 0;
            do
            :: block < BLOCKS ->
                if
                :: state[BLOCK(record, block)] == FREE && !(owner_of[record] != NOBODY &&
                    current[BIN(owner_of[record], CLASS(record))] == record &&
                    (mask[BIN(owner_of[record], CLASS(record))] & (1 << block)) != 0) -> at++
                :: else
                fi;
                block++
            :: else -> break
            od;
            assert(unit_of[record] == AWAY || missing[owner_of[record]] || free[record] == at);
            record++
        :: else -> break
        od
    }
}

/* In the child, before it goes on: all queues are empty, what the missing threads had waits, and
 * what other threads freed in the caller's spans and in the orphanage's is collected. */
inline forked()
{
    d_step {
        alone = _pid;
        forks++;
        record = 0;
        do
        :: record < RECORDS ->
#ifdef CHILD_QUEUES
            if
            :: owner_of[record] != me && owner_of[record] != ORPHANAGE -> queued[record] = false
            :: else
            fi;
#else
            queued[record] = false;
            in_queue[record] = false;
#endif
            at = 0;
            do
            :: at < BLOCKS ->
                block = BLOCK(record, at);
                if
                :: state[block] == REMOTE && owner_of[record] != NOBODY &&
                    (owner_of[record] == me || owner_of[record] == ORPHANAGE) ->
                    state[block] = FREE;
                    free[record]++
                :: else
                fi;
                if
                :: claimed[block] -> claimed[block] = false; loose++
                :: else
                fi;
                at++
            :: else -> break
            od;
            if
            :: me != NOBODY && owner_of[record] == me && free[record] != 0 &&
                record != current[BIN(me, CLASS(record))] -> listed[record] = true
            :: else
            fi;
            record++
        :: else -> break
        od;
        at = 1;
        do
        :: at <= ORPHANAGE ->
            if
#ifdef MISSING_QUEUES
            :: missing[at] ->
                record = queue[at];
                do
                :: record < NIL -> in_queue[record] = true; record = next_queued[record]
                :: else -> break
                od
#endif
#ifdef CHILD_QUEUES
            :: at == me || at == ORPHANAGE
#endif
            :: else ->
                if
                :: in_use[at] || warm[at] || missing[at] || at == ORPHANAGE -> queue[at] = NIL
                :: else
                fi
            fi;
            if
            :: at != me && (in_use[at] || warm[at]) ->
                in_use[at] = false;
                warm[at] = false;
                missing[at] = true
            :: else
            fi;
            at++
        :: else -> break
        od;
        at = 0;
        do
        :: at < (OWNERS + 2) * CLASSES ->
            if
            :: at / CLASSES != me -> stack[at] = 0; mask[at] = 0; current[at] = NIL
            :: else
            fi;
            at++
        :: else -> break
        od;
        record = NIL;
        at = 0;
        block = 0
    }
}

proctype thread(bool owns) UNLESS_FORKED
{
    byte me, record = NIL, chain = NIL, other = NIL, to, taken, at, class, unit, index, block;
    bool was, second, pushed;

next:
    atomic {
        record = NIL;
        to = 0;
        class = 0;
        block = 0;
        unit = 0;
        index = 0;
        was = false;
        second = false
    }
    do
    :: atomic {
        owns && allocations < ALLOCATIONS && (me != NOBODY || !lock) ->
        allocations++;
        if
        :: me == NOBODY -> begin()
        :: else
        fi;
        if
        :: class = 0
#if CLASSES > 1
        :: class = 1
#endif
        fi
       }
       allocate();
       goto next
    :: atomic {
        loose > 0 ->
        choose();
        claimed[block] = true;
        loose--;
        unit = unit_of[block / BLOCKS];
        index = block % BLOCKS;
        block = 0;
        assert(unit != AWAY);
        if
        :: DOUBLES != 0 && !again_given ->
            again_given = true;
            again_unit = unit;
            again_index = index
        :: skip
        fi
       }
       give_back();
       goto next
    :: atomic {
        again_unit != UNITS ->
        unit = again_unit;
        index = again_index;
        again_unit = UNITS;
        second = true
       }
       give_back();
       goto next
    :: atomic { me != NOBODY && ends < ENDS -> ends++ }
       end();
       goto next
#ifdef FORKS
    :: atomic { forks < FORKS && !lock -> forked() }
       goto next
    :: alone == _pid -> check(); break
#endif
    :: alone == 0 -> break
    od
}

init
{
    byte record, at, block;
    d_step {
        at = 0;
        do
        :: at < ORPHANAGE -> queue[at] = CLOSED; at++
        :: else -> break
        od;
        queue[ORPHANAGE] = NIL;
        at = 0;
        do
        :: at < (OWNERS + 2) * CLASSES -> current[at] = NIL; at++
        :: else -> break
        od;
        at = 0;
        do
        :: at < RECORDS -> unit_of[at] = AWAY; at++
        :: else -> break
        od;
        at = 0;
        do
        :: at < UNITS -> entry_record[at] = NIL; at++
        :: else -> break
        od;
        at = 0
    }
    atomic {
        do
        :: at < OWNERS -> run thread(true); at++
        :: else -> break
        od;
        at = 0;
        do
        :: at < FREERS -> run thread(false); at++
        :: else -> break
        od;
        at = 0
    }
    _nr_pr == 1 && alone == 0;
    check()
}
