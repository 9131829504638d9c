"""Tries are built, searched, saved, loaded, mapped and cleared; what they return outlives them."""

import gc

import pytest
from marisa_bindings import marisa

WORDS = [f"word {n} {'x' * (n % 60)}" for n in range(3000)]


def keys():
    made = marisa.Keyset()
    for n, word in enumerate(WORDS):
        made.push_back(word, float(n))
    return made


@pytest.fixture
def trie():
    made = marisa.Trie()
    made.build(keys())
    return made


def test_keyset_has_what_was_pushed():
    made = keys()
    assert made.size() == len(WORDS)
    assert [made.key_str(n) for n in range(len(WORDS))] == WORDS
    assert made.key(7).str() == WORDS[7]
    made.reset()
    assert made.empty()


def test_finds_every_word(trie):
    assert trie.num_keys() == len(WORDS)
    assert len({trie.lookup(word) for word in WORDS}) == len(WORDS)


def test_words_from_their_numbers(trie):
    agent = marisa.Agent()
    found = set()
    for n in range(trie.num_keys()):
        agent.set_query(n)
        trie.reverse_lookup(agent)
        found.add(agent.key_str())
    assert found == set(WORDS)


def test_searches(trie):
    agent = marisa.Agent()
    agent.set_query("word 1")
    found = []
    while trie.predictive_search(agent):
        found.append(agent.key_str())
    assert sorted(found) == sorted(word for word in WORDS if word.startswith("word 1"))
    agent.set_query(WORDS[59] + "and more")
    found = []
    while trie.common_prefix_search(agent):
        found.append(agent.key_str())
    assert WORDS[59] in found


def test_file(trie, tmp_path):
    path = str(tmp_path / "trie")
    trie.save(path)
    for way in "load", "mmap":
        again = marisa.Trie()
        getattr(again, way)(path)
        assert again.lookup(WORDS[100]) == trie.lookup(WORDS[100])


def test_results_outlive_the_trie(trie):
    agent = marisa.Agent()
    agent.set_query(WORDS[5])
    assert trie.lookup(agent)
    text = agent.key_str()
    trie.clear()
    del trie, agent
    gc.collect()
    assert text == WORDS[5]


def test_errors_are_exceptions(trie):
    with pytest.raises(RuntimeError):
        trie.load("/does/not/exist")
