# SPDX-License-Identifier: BSD-2-Clause
"""Learning what crosses from nothing but the module: its callables with invented arguments.

Runs in the controller; the tries themselves run in processes of a host. What a try makes becomes a
crossing. A call that ends its process with invented arguments proves nothing, because they may be
wrong; it is only counted.
"""

import importlib.util
import time

from . import _arguments, _kinds, _recipes

_EACH = 3  # crossings of one callable
_BATCH = 12  # tries of one process
_SECONDS = 2.0  # that it may take


class Crossing:
    """A recipe that was tried, and what it makes."""

    def __init__(self, recipe, kind, origin):
        self.recipe = recipe
        self.kind = kind
        if kind in ("call", "string") and _recipes.takes_callback(recipe):
            self.kind = "callback"
        self.origin = origin
        self.name = _recipes.text(recipe)

    def key(self):
        return (self.kind, _recipes.shape(self.recipe))


class Learned:
    """What learning found: crossings, and what a user should know about the rest."""

    def __init__(self):
        self.crossings = []
        self.fatal = []  # (text of a recipe, how it ended)
        self.silent = []  # names of callables that no arguments suited
        self.unrepeated = []  # recorded methods that ended their process when called alone
        self.cut = False  # whether time ran out
        self.loaded = set()  # modules that were imported on the way
        self._keys = set()

    def add(self, crossing):
        if crossing.key() in self._keys:
            return False
        self._keys.add(crossing.key())
        self.crossings.append(crossing)
        return True

    def limit(self, most):
        """Keeps some crossings of each kind, the first of each before the second of any, and gives
        them different names. Returns how many were left out."""
        ranked, count_of = [], {}
        for crossing in self.crossings:
            count_of[crossing.kind] = count_of.get(crossing.kind, 0) + 1
            ranked.append((count_of[crossing.kind], _kinds.KINDS.index(crossing.kind), crossing))
        ranked.sort(key=lambda one: one[:2])
        dropped = len(ranked) - most
        self.crossings = [one[2] for one in sorted(ranked[:most], key=lambda one: one[1])]
        seen = {}
        for crossing in self.crossings:
            seen[crossing.name] = seen.get(crossing.name, 0) + 1
            if seen[crossing.name] > 1:
                crossing.name += f" ({seen[crossing.name]})"
        return max(dropped, 0)


class _Subject:
    """A callable that is being tried: a recipe for it and the sets of arguments that are left."""

    def __init__(self, function, arity, depth):
        self.function = function
        self.depth = depth
        self.left = _arguments.sets(arity)
        self.arity = arity
        self.found = 0
        self.kinds = set()

    def recipes(self):
        return [_recipes.call(self.function, *one) for one in self.left]

    def narrow(self, count):
        """A TypeError told how many arguments there must be."""
        if self.arity is None and count is not None:
            self.arity = (count, count)
            self.left = _arguments.sets(self.arity)
            return True
        return False


class Learner:
    """Tries callables on a host until they are used up or time is."""

    def __init__(self, pool, host, seconds, progress):
        self.pool = pool
        self.host = host
        self.end = time.monotonic() + seconds
        self.progress = progress
        self.learned = Learned()
        self.types = set()

    def _ask(self, **request):
        """The host's answer to one request, or None."""
        [(_, _, answer)] = self.pool.run(iter([(self.host, {"timeout": 20, **request})]))
        return answer

    def callables(self):
        answer = self._ask(tries=None)
        return answer["steps"][0]["callables"] if answer is not None and answer["steps"] else []

    def invent(self):
        """Tries the module's callables."""
        if importlib.util.find_spec("numpy") is not None:  # many tries take its arrays
            self._ask(warm=["numpy"])
        subjects = [
            _Subject({"name": found["name"]}, found["arity"], 0) for found in self.callables()
        ]
        while subjects and not self.learned.cut:
            subjects = self._round(subjects)
        for crossing in self.learned.crossings:
            if _recipes.takes_numpy(crossing.recipe):
                self.learned.loaded.add("numpy")

    def _round(self, subjects):
        """One batch for each subject. Returns the subjects that are left, and new ones."""
        following, subject_of = [], {}

        def work():
            for subject in subjects:
                if time.monotonic() > self.end:
                    self.learned.cut = True
                    return
                request = {"tries": subject.recipes()[:_BATCH], "timeout": _SECONDS}
                subject_of[id(request)] = subject
                yield self.host, request

        for _, request, answer in self.pool.run(work()):
            subject = subject_of[id(request)]
            following += self._judge(subject, request["tries"], answer)
            self.progress(len(self.learned.crossings))
            if subject.left and subject.found < _EACH:
                following.append(subject)
            elif not subject.found:
                self.learned.silent.append(_recipes.text(subject.function))
        return following

    def _judge(self, subject, recipes, answer):
        """Takes what a process told about its tries. Returns new subjects."""
        new, done, made = [], 0, {}
        steps = answer["steps"] if answer is not None else []
        last = {}  # the last thing that was told about each try
        for step in steps:
            if "trying" in step:
                done = step["trying"] + 1
            elif "raised" in step and subject.narrow(_arguments.count_from(step["raised"])):
                return new
            elif "made" in step:
                made[step["made"]] = step
            last[done - 1] = step
        for number, step in made.items():
            if _proves(recipes[number], last[number]):
                new += self._made(subject, recipes[number], step)
            else:
                self._died(subject, recipes[number], answer)
            if subject.found >= _EACH:
                subject.left = []
                return new
        if done and done - 1 not in made and not _finished(answer):
            self._died(subject, recipes[done - 1], answer)
        subject.left = subject.left[max(done, 1) :]
        return new

    def _made(self, subject, recipe, step):
        crossing = Crossing(recipe, step["kind"], "generated")
        self.learned.loaded.update(step["loaded"])
        new = []
        if crossing.kind not in subject.kinds:
            subject.kinds.add(crossing.kind)
            subject.found += self.learned.add(crossing)
        if step["exports"] and (subject, step["type"]) not in self.types:
            self.types.add((subject, step["type"]))
            for name in step["exports"]:
                new.append(_Subject({"of": recipe, "attribute": name}, (0, 0), 2))
        if step["methods"] and step["type"] not in self.types and subject.depth < 2:
            self.types.add(step["type"])
            for method in step["methods"]:
                function = {"of": recipe, "attribute": method["name"]}
                new.append(_Subject(function, method["arity"], subject.depth + 1))
        return new

    def _died(self, subject, recipe, answer):
        how = "took too long" if answer["timed_out"] else "ended its process"
        if not _invented(recipe) and not answer["timed_out"]:
            # Nothing was invented, so nothing can have been wrong.
            subject.found += self.learned.add(Crossing(recipe, "call", "generated"))
        else:
            self.learned.fatal.append((_recipes.text(recipe), how))

    def replay(self, recipes):
        """Tries recorded recipes, one in a process."""
        exported = []
        self._replay(recipes, exported)
        self._replay(exported, [])

    def _replay(self, recipes, exported):
        def work():
            for recipe in recipes:
                yield self.host, {"tries": [recipe], "timeout": 5 * _SECONDS}

        for _, request, answer in self.pool.run(work()):
            (recipe,) = request["tries"]
            steps = answer["steps"] if answer is not None else []
            made = next((step for step in steps if "made" in step), None)
            if made is not None:
                self.learned.add(Crossing(recipe, made["kind"], "recorded"))
                self.learned.loaded.update(made["loaded"])
                exported += [_recipes.method(recipe, name) for name in made["exports"]]
            elif any("raised" in step for step in steps):
                self.learned.silent.append(_recipes.text(recipe))
            elif _recipes.receiver_is_made(recipe):
                # Calls that came before it on the same object may be what it lacks.
                self.learned.unrepeated.append(_recipes.text(recipe))
            else:  # it died with arguments that were good once
                self.learned.add(Crossing(recipe, "call", "recorded"))
            self.progress(len(self.learned.crossings))


def _invented(recipe):
    return any(part.get("args") for part in _recipes.parts(recipe))


def _proves(recipe, last):
    """Whether an object is a crossing, by the last thing that was told about it. Invented arguments
    may be wrong: an object whose memory cannot even be read was perhaps made of an invented
    address, and one that cannot be freed at once as well, if there was a number."""
    if "dropped" in last or not _invented(recipe):
        return True
    return "read" in last and not _recipes.takes_number(recipe)


def _finished(answer):
    return answer["status"] == 0 and not answer["timed_out"]
