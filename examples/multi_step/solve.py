"""A solver is an async function of a trial. Every call is durable: a killed run resumes at the call it had reached."""

from holdfast import Reply, Trial


async def think_first(trial: Trial) -> Reply:
    """Ask for the working, and then for the number alone."""
    working = await trial.generate(f"{trial.sample.input}\nShow your working.")
    return await trial.generate(f"Your working: {working.text}\nAnswer with the number only.")
