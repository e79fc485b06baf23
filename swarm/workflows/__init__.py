"""Programs that take the model's place: asked and answered through one journal, whatever their language.

A program continues by replay: it begins again, gets the journal's results in their order, and stands where it stood. It can reach only
its `Desk`; `Replay` compares its calls with the journal. A front end is a `RunningProgram`.
"""
