from deuz_compiler.working_memory.actions import SetTasks, TaskInput


def test_ids_given_to_several_tasks_are_found_once_each() -> None:
    names = ["a", None, "b", "a", None, "b", "c", "a"]
    action = SetTasks(tasks=tuple(TaskInput(id=n, title="t") for n in names))

    assert action.repeated_ids() == ("a", "b")
