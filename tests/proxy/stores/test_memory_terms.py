import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_terms import (
    MOST_TERMS,
    asked_terms,
    rows_to_weigh,
    terms_of,
    weigh_terms,
)

DOCUMENTS = {
    "en-1": "The customer prefers invoices in PDF, sent on the first of each month.",
    "en-2": "Deployments to production happen on Tuesdays only; ask Maria before"
    " changing the database.",
    "de-1": "Die Rechnungen werden an das Büro in München geschickt.",
    "de-2": "Der Benutzer mag keine Zwiebeln und ist gegen Nüsse allergisch.",
    "ru-1": "База данных находится на сервере в Хельсинки, пароли меняет Ольга.",
    "ru-2": "Пользователь предпочитает краткие ответы без вступлений.",
    "uk": "Користувач живе у Києві та любить каву.",
    "zh-1": "用户喜欢简短的回答，数据库部署在上海。",
    "zh-2": "项目的预算是五万元，由王经理批准。",
    "ja": "ユーザーは東京に住んでいて、毎朝コーヒーを飲みます。",
    "ko": "사용자는 서울에 살고 있으며 데이터베이스를 관리합니다.",
    "th": "ผู้ใช้ชอบดื่มกาแฟทุกเช้าและทำงานที่กรุงเทพ",
    "ar": "المستخدم يفضل الاجتماعات في الصباح ويعيش في القاهرة",
    "hi": "उपयोगकर्ता को सुबह की बैठकें पसंद हैं और वह दिल्ली में रहता है",
    "tr": "Kullanıcı İstanbul'da yaşıyor ve toplantıları sabah tercih ediyor.",
    "fi": "Käyttäjä asuu Helsingissä ja haluaa laskut sähköpostiin.",
    "el": "Ο χρήστης προτιμά σύντομες απαντήσεις στα ελληνικά.",
    "fr": "L'utilisateur déteste les réunions après seize heures à l'hôtel.",
    "code": "getUserByEmail in auth_service.py raises UserNotFoundError; retry.",
    "settings": "Set HTTP_PROXY_TIMEOUT=30 and MAX_RETRIES=5 in config/prod.yaml",
    "vi": "Người dùng thích cà phê sữa đá và làm việc tại Hà Nội.",
    "he": "המשתמש גר בתל אביב ומעדיף תשובות קצרות",
}
QUESTIONS = {
    "en-1": ["when do invoices go out"],
    "en-2": ["changing databases in production"],
    "de-1": ["rechnung büro", "MUNCHEN"],
    "de-2": ["Nuss Allergie", "zwiebel"],
    "ru-1": ["где база данных", "базы данных хельсинки", "сервера паролей"],
    "ru-2": ["короткие или краткий ответ", "пользователю"],
    "uk": ["кава", "Київ кави"],
    "zh-1": ["数据库在哪里", "上海"],
    "zh-2": ["预算多少", "王经理"],
    "ja": ["東京", "コーヒー", "朝"],
    "ko": ["서울", "데이터베이스", "사용자가"],
    "th": ["กาแฟ", "กรุงเทพ"],
    "ar": ["القاهرة", "اجتماع"],
    "hi": ["बैठक", "दिल्ली"],
    "tr": ["istanbul", "toplantı"],
    "fi": ["Helsinki lasku", "sähköposti"],
    "el": ["απαντηση ελληνικα"],
    "fr": ["reunion hotel", "utilisateurs"],
    "code": [
        "user not found error",
        "get user by email",
        "UserByEmail",
        "auth_service",
        "usrbyemail typo getUserByEmial",
    ],
    "settings": ["proxy timeout", "max_retries"],
    "vi": ["ca phe", "Hanoi ha noi"],
    "he": ["תשובה קצרה", "אביב"],
}
TERMS = {name: frozenset(terms_of(text, words_of)) for name, text in DOCUMENTS.items()}


def held_by(records: list[frozenset[str]]) -> dict[str, int]:
    everything = frozenset().union(*records)
    return {term: sum(term in each for each in records) for term in everything}


@pytest.mark.parametrize(
    ("name", "question"),
    [(name, question) for name, asked in QUESTIONS.items() for question in asked],
)
def test_the_record_meant_is_the_best_in_every_language(
    name: str, question: str
) -> None:
    held = held_by(list(TERMS.values()))

    asked = weigh_terms(asked_terms(question, words_of), held, len(DOCUMENTS))

    assert asked is not None
    scores = {other: asked.score(terms) for other, terms in TERMS.items()}
    assert max(scores, key=lambda other: scores[other]) == name
    assert scores[name] > 0.1


def test_the_only_record_there_is_can_be_found() -> None:
    terms = frozenset(terms_of("The user's favourite colour is green.", words_of))

    asked = weigh_terms(
        asked_terms("what is my favourite colour?", words_of), held_by([terms]), 1
    )

    assert asked is not None
    assert asked.score(terms) > 0.5


def test_words_that_nobody_wrote_lower_the_score_but_not_without_end() -> None:
    terms = frozenset(terms_of("green", words_of))
    held = held_by([terms, *[frozenset(f"w{n}") for n in range(9)]])
    scores = []
    for question in ("green", "green zzzz", "green " + "zq zk zj zx zv zb " * 30):
        asked = weigh_terms(asked_terms(question, words_of), held, 10)
        assert asked is not None
        scores.append(asked.score(terms))

    assert scores[0] > 0.99
    assert scores[0] > scores[1] > scores[2] > 0.1


def test_a_question_without_known_terms_is_none() -> None:
    assert weigh_terms((), {}, 0) is None
    assert weigh_terms(("a",), {"a": 0}, 3) is None
    assert weigh_terms(asked_terms("?!", words_of), {"x": 1}, 1) is None


def test_the_rarest_terms_carry_a_long_question() -> None:
    held = {f"w{number:03}": number + 1 for number in range(200)}

    asked = weigh_terms(tuple(held), held, 300)

    assert asked is not None
    assert list(asked.weights) == [f"w{number:03}" for number in range(MOST_TERMS)]


def test_what_holds_a_question_together_is_no_term() -> None:
    assert asked_terms("How do these work?", words_of) == ()
    assert asked_terms("How do refunds work?", words_of) == (
        asked_terms("refunds", words_of)
    )


def test_of_two_records_with_the_same_words_the_shorter_is_better() -> None:
    short = frozenset(terms_of("green tea", words_of))
    long = short | frozenset(terms_of("and cake, served at the lake", words_of))

    asked = weigh_terms(("green", "tea"), held_by([short, long]), 2)

    assert asked is not None
    assert 0.9 < asked.score(long) < asked.score(short)


def test_threes_shared_by_chance_with_the_only_record_are_not_much() -> None:
    only = frozenset(terms_of("The funding round is over.", words_of))

    asked = weigh_terms(asked_terms("refunds", words_of), held_by([only]), 1)

    assert asked is not None
    assert asked.score(only) < 0.3


def test_a_store_weighs_more_records_than_it_answers_with() -> None:
    assert (rows_to_weigh(1), rows_to_weigh(20), rows_to_weigh(50)) == (80, 80, 200)


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_score_is_a_share_and_a_text_finds_itself(text: str, other: str) -> None:
    records = [frozenset(terms_of(each, words_of)) for each in (text, other)]

    asked = weigh_terms(asked_terms(text, words_of), held_by(records), 2)

    if asked is not None:
        assert asked.score(records[0]) > 0.8
        assert 0.0 <= asked.score(records[1]) <= 1.0
