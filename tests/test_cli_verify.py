"""edgeforest verify: signed models and all others."""

from command_line import exported, refused, table

import edgeforest
from edgeforest import cli


def test_verify_knows_what_was_signed(model, tmp_path, capsys, key):
    out = tmp_path / "signed.json"
    text = exported(capsys, model, out, "--sign", key)
    assert f"signed     with the key in {key}\n" in text
    assert edgeforest.load(out).to_json() == edgeforest.load(model).to_json()
    assert cli.main(["verify", str(out), "--key", str(key)]) == 0
    text = capsys.readouterr().out
    assert text.endswith(f"verified   it was signed with the key in {key}\n")
    assert cli.main(["verify", str(out)]) == 0
    assert "its SHA-256 fits; who wrote it is not known" in capsys.readouterr().out


def test_verify_refuses_all_else(log, model, tmp_path, capsys, key):
    out = tmp_path / "signed.json"
    exported(capsys, model, out, "--sign", key)
    other = table(tmp_path, b"another key, of someone else", "other")
    said = refused(capsys, "verify", out, "--key", other)
    assert said == f"{out}: the signature of the model does not fit the key; do not use it"
    said = refused(capsys, "verify", model, "--key", key)
    assert said == f"{model}: the model has no signature; sign it first, or do not use it"
    said = refused(capsys, "verify", model)
    assert said == f"{model}: the model has no SHA-256; sign it first"
    text = out.read_text()
    altered = table(tmp_path, text.replace('"seed":0', '"seed":1'), "altered.json")
    assert "altered" in refused(capsys, "verify", altered, "--key", key)
    assert "not an EdgeForest model" in refused(capsys, "verify", log, "--key", key)
    assert "no such file" in refused(capsys, "verify", tmp_path / "gone", "--key", key)
    assert "no such file" in refused(capsys, "verify", out, "--key", tmp_path / "gone")
