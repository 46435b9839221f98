"""Findings and their artifacts, kept where several campaigns write at once.

The idea: what a finding consists of is content-addressed and written first, under a temporary name that is then
changed; its row is written last, in one transaction, under an id that is a hash of what was found. So whatever ends a
process, a finding is there as a whole or not at all, and finding it again adds nothing.

    finding    what is stored, as frozen data: findings, buckets, verifications, campaigns; ids
    api        open_store and Store: the only door for the rest of assay
    artifacts  bytes by their digest, in a folder or at an fsspec URL
    database   connections, transactions, migrations, and what their errors mean in words
    tables     the schema; migrations/ is how a store of an earlier version gets it
    verify     judges stored findings again under another toolchain
    export     a finding as a folder that stands alone

`finding` and `api` import nothing heavy: SQLAlchemy is loaded when a store is opened.
"""
